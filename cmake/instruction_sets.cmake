# The files that are compiled for one instruction set, a line each: flags on them alone, no exceptions (they would leave
# weak symbols behind). A new tier is its lines here, one in base/cpu.cpp (its name, and whether a machine runs it), and
# one in backend/cpu/kernels/select.cpp (its kernels).
set(avx2 -mavx2 -mfma -mf16c)
set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${avx2} -mprefer-vector-width=512)

function(assay_instruction_set file)
  # g++ 12 warns of its own _mm512_undefined_ps().
  if("-mavx512f" IN_LIST ARGN)
    list(PREPEND ARGN $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
  endif()
  set_source_files_properties(assay/${file} PROPERTIES COMPILE_OPTIONS "${ARGN};-fno-exceptions;${kernel_flags}")
endfunction()

assay_instruction_set(backend/cpu/kernels/avx2/kernels.cpp ${avx2})
assay_instruction_set(backend/cpu/kernels/avx2/vnni.cpp ${avx2} -mavxvnni)
assay_instruction_set(backend/cpu/kernels/avx512/kernels.cpp ${avx512})
assay_instruction_set(backend/cpu/kernels/avx512/vnni.cpp ${avx512} -mavx512vnni)
assay_instruction_set(backend/cpu/kernels/avx512bf16/kernels.cpp ${avx512} -mavx512vnni -mavx512bf16)
assay_instruction_set(backend/cpu/kernels/amx/kernels.cpp ${avx512} -mavx512vnni -mavx512bf16 -mavx512vbmi)
# What the rooflines are measured by.
assay_instruction_set(machine/probes/avx2.cpp -mavx2 -mfma)
assay_instruction_set(machine/probes/avx512.cpp -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16)
assay_instruction_set(machine/probes/amx.cpp -mavx512f -mamx-tile -mamx-bf16 -mamx-int8)
