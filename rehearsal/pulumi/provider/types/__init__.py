"""Tables of the azure-native types that the platform declares."""
