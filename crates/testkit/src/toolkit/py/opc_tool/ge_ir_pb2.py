"""Stands for the code that the protobuf compiler made long ago: newer libraries refuse it."""
import google.protobuf

if int(google.protobuf.__version__.split(".")[0]) >= 4:
    raise TypeError(
        "Descriptors cannot be created directly.\n"
        "If this call came from a _pb2.py file, your generated code is out of date and must be regenerated with "
        "protoc >= 3.19.0.\n"
        "If you cannot immediately regenerate your protos, some other possible workarounds are:\n"
        " 1. Downgrade the protobuf package to 3.20.x or lower.\n"
        " 2. Set PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python (but this will use pure-Python parsing and will be much "
        "slower).")
