"""See a machine think: every step of an answer recorded, drawn, put on a page, and told in words."""
