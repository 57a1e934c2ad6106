"""The quality of rows: labels that predictions contradict, and rows that appear twice."""
