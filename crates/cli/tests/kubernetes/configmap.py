"""Prints the edge.toml of the ConfigMap in a manifest."""

import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as manifest:
    for document in yaml.safe_load_all(manifest):
        if document["kind"] == "ConfigMap":
            print(document["data"]["edge.toml"])
