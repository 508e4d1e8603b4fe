"""The operators of a project, as its host step wrote them: `aic-<unit>-ops-info.ini`."""


def read(path):
    """By type, the fields of each: `{"AddCustom": {"input0.name": "x", ...}}`, in the order of the file."""
    found, current = {}, None
    with open(path, encoding="utf-8") as file:
        for line in map(str.strip, file):
            if line.startswith("["):
                current = found.setdefault(line[1:-1], {})
            elif "=" in line:
                name, value = line.split("=", 1)
                current[name] = value
    return found


def ports(fields):
    """Inputs, then outputs: `(name, "input" or "output", element types, formats)`."""
    for side in ("input", "output"):
        at = 0
        while "%s%d.name" % (side, at) in fields:
            name = "%s%d." % (side, at)
            yield (fields[name + "name"], side, fields[name + "dtype"].split(","), fields[name + "format"].split(","))
            at += 1


def attrs(fields):
    """`(name, type, default)`; those that are listed."""
    for name in filter(None, fields.get("attr.list", "").split(",")):
        yield name, fields["attr_%s.type" % name], fields["attr_%s.defaultValue" % name]
