"""A log reduced to tables on disk, and what is planned from it: traces, run folders, plan files."""
