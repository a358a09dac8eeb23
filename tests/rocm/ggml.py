#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Operators of ggml on its HIP backend, which its own test compares with the CPU backend.

Debian's backend has kernels for older GPUs only: gfx942 executes those for gfx90a. Arguments name
groups of operators.
"""

import sys

import counted

PROGRAM = "/usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-backend-ops"
BACKEND = "ROCm0"
ISA = {"HSA_OVERRIDE_GFX_VERSION": "9.0.10"}
# Name, operators, expression for their parameters, and tests that pass, of each group.
GROUPS = (
    ("unary", "ABS,SGN,NEG,STEP,TANH,ELU,RELU,SIGMOID,GELU,GELU_QUICK,GELU_ERF,SILU,HARDSWISH,"
     "HARDSIGMOID,EXP,SQR,SQRT,LOG,SIN,COS,CLAMP,LEAKY_RELU", r"ne(_a)?=\[(5,7|10,[25])", 105),
    ("gated", "REGLU,GEGLU,SWIGLU,GEGLU_ERF,GEGLU_QUICK", r"ne_a=\[5,7,11,13\]", 90),
    ("binary", "ADD,SUB,MUL,DIV", r"ne=\[10,5,4,[13]\]", 230),
    ("norms", "NORM,RMS_NORM,L2_NORM", r"ne=\[64,5,4,3\]", 31),
    ("soft_max", "SOFT_MAX", r"ne=\[1[0-9],1[0-9],1,1\]", 56),
    ("sums", "SUM,SUM_ROWS,MEAN,CUMSUM,ARGMAX,COUNT_EQUAL", r"ne=\[(10,5|32,)", 8),
    ("sorts", "ARGSORT", r"ne=\[[0-9]{1,2},", 26),
    ("copies", "CONT,CONCAT,REPEAT,DUP,SCALE,FILL", r"ne(_a)?=\[(2|3|10|11),.*(v=0|[^v]=0|\])$",
     89),
    ("conversions", "CPY",
     r"type_src=(f32|f16|bf16|q8_0),type_dst=(f32|f16|bf16|q8_0),ne_src=\[256,", 40),
    ("rows", "GET_ROWS", r"n=256,m=5,r=4,be1=1,be2=1,v=0", 52),
    ("mul_mat", "MUL_MAT", r"type_a=(f32|f16),type_b=f32,m=16,n=[19],k=256,bs=\[1,1\],nr=\[1,1\]",
     6),
    ("mul_mat_id", "MUL_MAT_ID", r"type_a=(f32|f16),.*k=(64|256),", 161),
    ("mul_mat_id_quantized", "MUL_MAT_ID", r"type_a=(q4_0|q8_0),.*,n=(1|4|5),", 77),
    ("rope", "ROPE", r"type=f32,ne_a=\[(64|80),.*ff=0,v=0,inplace=0", 18),
    ("attention", "FLASH_ATTN_EXT",
     r"hsk=64,hsv=64,nh=4,nr23=\[1,1\],kv=512,nb=1,mask=1,sinks=0,max_bias=0\.0+,logit_softcap=0\.",
     17),
    ("pooling", "POOL_2D", r"ne_input=\[10,10,3,1\],k0=[13],k1=[13],s0=1,s1=1", 32),
)
PASSED = r"(\d+)/\d+ tests passed"


def programs(names):
    """Returns the test of each group with one of these names, or of all groups."""
    for name, operators, parameters, count in GROUPS:
        if not names or name in names:
            command = [PROGRAM, "test", "-b", BACKEND, "-o", operators, "-p", parameters]
            yield name, command, ISA, count


if __name__ == "__main__":
    sys.exit(counted.report("ggml", list(programs(sys.argv[1:])), PASSED))
