"""How figures are taken: the input of all contenders (data), runs, and their reports."""
