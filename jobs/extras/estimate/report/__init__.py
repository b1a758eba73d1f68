"""A plan as text, JSON and a page that can be filed."""
