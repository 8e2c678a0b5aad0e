"""Values as HTML for notebooks: without scripts, links, ids or anything from another server."""
