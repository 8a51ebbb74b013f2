"""x"""

from .backend import Integers
