"""Programs in Python and JavaScript: names followed to what they stand for, constants folded, calls judged by table."""
