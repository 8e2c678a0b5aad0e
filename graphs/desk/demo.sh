#!/usr/bin/env bash
# On a terminal: a chat with the refund desk. Without one: the whole story, every step in a process of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

agent=graphs/refund_desk.py:agent
thread=demo
place=$(mktemp -d)
export SCALLION_DB="sqlite:///$place/scallion.db" SCALLION_DESK_DB="$place/refund_desk.db"

if [ -t 0 ] && [ -t 1 ]; then
  echo "Try: refund order 1042 and email the customer. Leave the approvals for later, if you like; then, in any shell:"
  printf '  cd %q\n  export PATH=%q:"$PATH"\n' "$PWD" "$(dirname "$(command -v scallion)")"
  printf '  export SCALLION_DB=%q SCALLION_DESK_DB=%q\n  scallion pending\n\n' "$SCALLION_DB" "$SCALLION_DESK_DB"
  trap : INT # the chat itself handles Ctrl-C
  status=0
  scallion chat "$agent" --thread "$thread" || status=$?
  [ "$status" = 0 ] && rm -rf "$place"
  [ "$status" = 3 ] && echo "(The lines at the top make these commands work in another shell.)" && status=0
  exit "$status"
fi
trap 'rm -rf "$place"' EXIT

# say TEXT; then `step STATUS WORDS...` runs `scallion WORDS...` as a new process that must end with STATUS.
say() { printf '\n# %s\n' "$*"; }
step() {
  local expected=$1 status=0
  shift
  printf '$ scallion'; for word in "$@"; do [[ $word == *' '* ]] && word="\"$word\""; printf ' %s' "$word"; done; echo
  scallion "$@" </dev/null || status=$?
  [ "$status" = "$expected" ] || { echo "exit status $status instead of $expected" >&2; exit 1; }
}
# The id of the open approval for a tool.
approval() { scallion pending --json | python -c 'import json, sys
found = json.load(sys.stdin)
items = found["items"] if isinstance(found, dict) else found
print(next(item["id"] for item in items if item["tool"] == sys.argv[1]))' "$1"; }

say "A user asks. Both calls need a person, so the process ends (exit status 3)."
step 3 run "$agent" "Refund order 1042 and email the customer" --thread "$thread"
say "Somebody else looks what is open: no model and no graph is loaded."
step 0 pending
say "The refund is approved, the e-mail is not."
refund=$(approval refund_order) email=$(approval send_email)
step 0 approve "$refund" --by ana
step 0 reject "$email" --message "I will call her" --by ana
say "A third process carries on where the first one stopped."
step 0 resume "$agent" "$thread"
say "What happened on the thread."
step 0 show "$thread"
