import importlib, pkgutil, api
print(len([importlib.import_module(one.name) for one in pkgutil.walk_packages(api.__path__, 'api.')]))
