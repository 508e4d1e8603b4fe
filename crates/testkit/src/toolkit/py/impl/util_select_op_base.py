"""How an operator says which element types and formats it takes, where the operator information does not."""
import json


def gen_param(classify, name, datatype, format, unknownshape_format=None):
    """One tensor: `input0`, its name, and lists with commas."""
    return classify, {"name": name, "dtype": datatype, "format": format,
                      "unknownshape_format": unknownshape_format or format}


def get_dynamic_param_in_json(params):
    """The answer as JSON."""
    return json.dumps(dict(params), indent=4)
