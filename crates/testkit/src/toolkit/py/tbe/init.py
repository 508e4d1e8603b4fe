"""Tensor Boost Engine, as far as the stand-in has it. Importing it takes its time, as importing the real one does."""
import attr
import cloudpickle
import decorator
import ml_dtypes
import numpy
import psutil
import scipy
import tornado

from opkeep_standin import control

control.start_up()
