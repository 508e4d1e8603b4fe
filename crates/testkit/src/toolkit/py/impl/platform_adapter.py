"""What operators import from the toolkit, in one place."""
from tbe import dsl as tbe
from tbe.common import register
from tbe.common.utils import para_check
from tbe.tikcpp import compile_op

register_operator = register.register_operator
