"""The types of azure-native that the platform declares, as tables."""
