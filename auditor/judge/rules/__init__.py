"""The rules, one module per theme; found by walking this folder (`auditor.judge.rule`)."""
