"""Worlds for foresight: series with labelled faults, recorded series, and how alarms are scored."""
