"""Planning: logical plans, optimizer rules and EXPLAIN."""
