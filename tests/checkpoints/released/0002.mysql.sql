CREATE TABLE scallion_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT scallion_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE sessions (
    no BIGINT NOT NULL AUTO_INCREMENT, 
    thread VARCHAR(255) COLLATE utf8mb4_bin NOT NULL, 
    created BIGINT NOT NULL, 
    updated BIGINT NOT NULL, 
    status VARCHAR(16) NOT NULL, 
    progress VARCHAR(16) NOT NULL, 
    owner VARCHAR(255) COLLATE utf8mb4_bin, 
    agent VARCHAR(255) COLLATE utf8mb4_bin, 
    title LONGTEXT COLLATE utf8mb4_bin, 
    preview LONGTEXT COLLATE utf8mb4_bin, 
    message_count INTEGER NOT NULL, 
    pending_count INTEGER NOT NULL, 
    open_count INTEGER NOT NULL, 
    bytes BIGINT NOT NULL, 
    head VARCHAR(64) COLLATE utf8mb4_bin, 
    generation INTEGER NOT NULL, 
    version BIGINT NOT NULL, 
    item_count BIGINT NOT NULL, 
    PRIMARY KEY (no), 
    CONSTRAINT sessions_thread UNIQUE (thread)
);

CREATE INDEX sessions_owner ON sessions (owner, updated, no);

CREATE INDEX sessions_status ON sessions (status, updated, no);

CREATE INDEX sessions_updated ON sessions (updated, no);

CREATE TABLE session_tags (
    session BIGINT NOT NULL, 
    tag VARCHAR(100) COLLATE utf8mb4_bin NOT NULL, 
    PRIMARY KEY (session, tag), 
    FOREIGN KEY(session) REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE INDEX session_tags_tag ON session_tags (tag, session);

CREATE TABLE items (
    session BIGINT NOT NULL, 
    id BIGINT NOT NULL, 
    hash VARBINARY(16) NOT NULL, 
    type VARCHAR(32) NOT NULL, 
    data LONGBLOB NOT NULL, 
    PRIMARY KEY (session, id), 
    CONSTRAINT items_hash UNIQUE (session, hash), 
    FOREIGN KEY(session) REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE TABLE checkpoints (
    session BIGINT NOT NULL, 
    ns VARCHAR(512) COLLATE utf8mb4_bin NOT NULL, 
    id VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    parent VARCHAR(64) COLLATE utf8mb4_bin, 
    form BIGINT NOT NULL, 
    leaves LONGBLOB NOT NULL, 
    metadata LONGTEXT COLLATE utf8mb4_bin NOT NULL, 
    run VARCHAR(64) COLLATE utf8mb4_bin, 
    PRIMARY KEY (session, ns, id), 
    FOREIGN KEY(session) REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE INDEX checkpoints_run ON checkpoints (run);

CREATE TABLE entries (
    session BIGINT NOT NULL, 
    channel VARCHAR(255) COLLATE utf8mb4_bin NOT NULL, 
    pos BIGINT NOT NULL, 
    item BIGINT NOT NULL, 
    PRIMARY KEY (session, channel, pos), 
    FOREIGN KEY(session) REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE TABLE writes (
    session BIGINT NOT NULL, 
    ns VARCHAR(512) COLLATE utf8mb4_bin NOT NULL, 
    checkpoint VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    task VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    path LONGTEXT COLLATE utf8mb4_bin NOT NULL, 
    leaves LONGBLOB NOT NULL, 
    PRIMARY KEY (session, ns, checkpoint, task), 
    FOREIGN KEY(session) REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE TABLE approvals (
    no BIGINT NOT NULL AUTO_INCREMENT, 
    session BIGINT NOT NULL, 
    id VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    ns VARCHAR(512) COLLATE utf8mb4_bin NOT NULL, 
    checkpoint VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    root VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    task VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, 
    status VARCHAR(16) NOT NULL, 
    kind VARCHAR(32) NOT NULL, 
    owner VARCHAR(255) COLLATE utf8mb4_bin, 
    requested_by VARCHAR(255) COLLATE utf8mb4_bin, 
    tool VARCHAR(255) COLLATE utf8mb4_bin, 
    payload LONGTEXT COLLATE utf8mb4_bin NOT NULL, 
    created BIGINT NOT NULL, 
    expires BIGINT, 
    decision LONGTEXT COLLATE utf8mb4_bin, 
    decided_by VARCHAR(255) COLLATE utf8mb4_bin, 
    decided BIGINT, 
    PRIMARY KEY (no), 
    CONSTRAINT approvals_session UNIQUE (session, id), 
    FOREIGN KEY(session) REFERENCES sessions (no) ON DELETE CASCADE
);

CREATE INDEX approvals_id ON approvals (id);

CREATE INDEX approvals_owner ON approvals (owner, status, no);

CREATE INDEX approvals_status ON approvals (status, no);

INSERT INTO scallion_version (version_num) VALUES ('0001');

-- Running upgrade 0001 -> 0002

CREATE TABLE keyring (
    no INTEGER NOT NULL, 
    id VARCHAR(32) COLLATE utf8mb4_bin NOT NULL, 
    since BIGINT NOT NULL, 
    PRIMARY KEY (no)
);

ALTER TABLE session_tags ADD COLUMN created BIGINT NOT NULL DEFAULT '0';

ALTER TABLE session_tags ADD COLUMN updated BIGINT NOT NULL DEFAULT '0';

ALTER TABLE sessions ADD COLUMN tag_count INTEGER NOT NULL DEFAULT '0';

UPDATE session_tags SET created=(SELECT sessions.created 
FROM sessions 
WHERE sessions.no = session_tags.session), updated=(SELECT sessions.updated 
FROM sessions 
WHERE sessions.no = session_tags.session);

UPDATE sessions SET tag_count=(SELECT count(*) AS count_1 
FROM session_tags 
WHERE session_tags.session = sessions.no);

CREATE INDEX sessions_created ON sessions (created, no);

CREATE INDEX sessions_status_created ON sessions (status, created, no);

CREATE INDEX sessions_owner_created ON sessions (owner, created, no);

CREATE INDEX session_tags_created ON session_tags (tag, created, session);

CREATE INDEX session_tags_updated ON session_tags (tag, updated, session);

CREATE INDEX approvals_open ON approvals (session, status, no);

CREATE INDEX approvals_tool ON approvals (tool, status, no);

CREATE INDEX approvals_kind ON approvals (kind, status, no);

DROP INDEX session_tags_tag ON session_tags;

UPDATE scallion_version SET version_num='0002' WHERE scallion_version.version_num = '0001';

