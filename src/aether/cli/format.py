"""The forms an answer can be printed in."""

import enum


class Output(enum.StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
