"""The list of rules a StreamApp must satisfy beyond the type of each field; the list is the specification."""

from holdfast.spec.name_rules import NAME_RULES
from holdfast.spec.object_rules import OBJECT_RULES
from holdfast.spec.rule import Rule

RULES: tuple[Rule, ...] = (*OBJECT_RULES, *NAME_RULES)
