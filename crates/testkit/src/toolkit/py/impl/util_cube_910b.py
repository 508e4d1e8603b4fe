"""Tiling of products of matrices."""

BLOCK = 16
