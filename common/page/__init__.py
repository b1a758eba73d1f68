"""The base of all HTML pages: one template, one style sheet, and what fills them."""
