"""What an operator's function is told besides its arguments, and what it tells in return."""


class OpInfo:
    """The operator that is compiled."""

    def __init__(self, func, op_type):
        self.func, self.op_type = func, op_type
        self.inputs, self.outputs, self.attrs, self.precision_mode = [], [], [], None


class OpContext:
    """`dynamic`, `static` or `pre-static`; contexts nest."""

    stack = []

    def __init__(self, mode):
        self.mode, self.op_infos, self.additions = mode, [], {}
        self.build_results, self.compile_info = {}, {}

    def __enter__(self):
        self.stack.append(self)
        return self

    def __exit__(self, *_):
        self.stack.pop()

    def add_op_info(self, op_info):
        self.op_infos.append(op_info)

    def add_addition(self, key, value):
        self.additions[key] = value

    def get_addition(self, key):
        return self.additions.get(key)

    def add_build_res(self, key, value):
        self.build_results[key] = value

    def get_build_res(self, key):
        return self.build_results.get(key)

    def add_compile_info(self, key, value):
        self.compile_info[key] = value

    def get_compile_info(self, key=None):
        return self.compile_info if key is None else self.compile_info.get(key)


def get_context():
    return OpContext.stack[-1] if OpContext.stack else None
