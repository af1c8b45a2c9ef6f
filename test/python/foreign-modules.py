import ast, sys
tree = ast.parse(sys.stdin.read(), feature_version=(3, 8))
names = {name.name for part in ast.walk(tree) if isinstance(part, ast.Import) for name in part.names}
names |= {part.module for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)}
print({name.split(".")[0] for name in names} - set(sys.stdlib_module_names))
