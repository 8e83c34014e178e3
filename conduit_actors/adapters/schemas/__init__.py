"""JSON Schema as each provider takes it. Pure functions: they never change their input, and always end."""
