// Facts about the processor and what this process may use of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/units.h"

namespace assay {

// Instruction-set tiers, each including the ones before it.
enum class Isa { scalar, avx2, avx512, avx512bf16, amx };

inline constexpr Isa kAllIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};

std::string_view name_of(Isa isa);
// Throws FieldError listing the names when there is no such tier.
Isa isa_from_name(std::string_view text);

// True where the processor has every instruction of the tier AND the operating system saves its registers.
// Tiles (AMX) need the kernel's permission as well, which is asked for once per process.
bool is_usable(Isa isa);
// The products of bytes of AVX2 and of AVX-512, which not every processor of those tiers has.
bool has_avx2_vnni();
bool has_avx512_vnni();
// Products of pairs of bfloat16 (with VNNI): what the tier avx512bf16 is made of.
bool has_avx512_bf16();
// The tier avx512bf16 is faster than avx512 here: its products of pairs of bfloat16 take less than one and a
// half times as long as half as many of float32. True on Zen 4 and 5; on Sapphire Rapids they take four times
// as long. Measured when first asked, in 0.1 ms; false where the tier is not usable.
bool are_bfloat16_products_fast();
// Why a tier is not usable: "the processor has no AVX2", "the kernel refuses AMX tiles (errno 95)"; none
// where it is.
std::optional<std::string> why_not_usable(Isa isa);
// Why the tiles that the processor has are not used: the system does not save or the kernel does not grant
// them. None where they are, and where there are none.
std::optional<std::string> why_tiles_are_refused();
// The fastest of the tiers that are usable: avx512bf16 only where its products are fast.
Isa best_usable_isa();

// Whether constants that depend on the processor are measured on it: once, and kept in a file; never; or now.
enum class Tune { once, off, force };

struct CpuInfo {
  std::string model;                  // as the processor names itself
  std::string microcode;              // its version, as the system tells it: "0xa101148"; or "unknown"
  int online = 0;                     // logical processors the system has online
  int allowed = 0;                    // those of them that this process may run on
  double quota = 0;                   // processors' worth of time the cgroup allows; 0 = no limit
  std::vector<std::string> features;  // cpu_features()
};
// The flags kernels care about, of those the processor has.
const std::vector<std::string>& cpu_features();
CpuInfo cpu_info();

// The processors this process may run on, as they were when first asked: pinning a thread later does not
// change the answer.
const std::vector<int>& allowed_processors();
// Those of a mask in hexadecimal ("0x3", "f0"), lowest bit processor 0. Throws FieldError where it is no such
// mask, or has no processor that is allowed.
std::vector<int> processors_of_mask(std::string_view mask);
// The least memory that a control group of this process allows it; zero where none limits it.
Bytes cgroup_memory_limit();

// The files that tell how long quotas have kept the control groups of this process waiting: those that are
// there.
const std::vector<std::string>& cgroup_cpu_statistics();

// Threads used when nobody says: one for each core of some processors (empty: the allowed ones), no more than
// the cgroup's quota pays for.
int default_thread_count(const std::vector<int>& processors = {});
// The same of so many cores.
int threads_for(int cores, double quota);

}  // namespace assay
