"""JSON Schema as each provider takes it. Pure functions: they never change their input, and always end.

- `strict`: OpenAI's strict mode, and where it makes a model send null; `nulls` takes those back.
- `normalise`: what each provider accepts without strict mode; `renames` gives renamed property keys back.
- `anthropic_strict`: Anthropic's strict mode, planned over a request's budgets.
- `output`: output schemas.
"""
