// What the inner loops of float32 products in assembler are made of, whatever the width of their registers:
// sums that start at zero or at what is there; whole strides of inputs, then what is left of them one by one.
// For the ISA files that include it inside their own anonymous namespace. Not a header for others.
#pragma once

#define ASSAY_HAS_CHUNKS

#define ASSAY_START(load, clear) "cmpq $0, %[is_first]\n\tjnz 1f\n\t" load "jmp 2f\n1:\n\t" clear "2:\n\t"
#define ASSAY_LOOPS(stride, one)                                               \
  "test %[strides], %[strides]\n\tjz 4f\n\t.p2align 6\n3:\n\t" stride          \
  "dec %[strides]\n\tjnz 3b\n4:\n\ttest %[rest], %[rest]\n\tjz 6f\n5:\n\t" one \
  "dec %[rest]\n\tjnz 5b\n6:\n\t"
