#include "assay/base/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/base/topology.h"
#include "assay/base/units.h"

namespace assay {

namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

// Which register states the operating system saves on a context switch (XCR0).
std::uint64_t saved_states() {
  if ((cpuid(1).c & (1u << 27)) == 0) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

constexpr std::uint64_t kAvxState = 0x6;      // SSE and upper halves of ymm
constexpr std::uint64_t kAvx512State = 0xe6;  // and mask registers, upper halves of zmm, zmm16..31

bool bit(unsigned value, int index) {
  return ((value >> index) & 1u) != 0;
}

bool has_avx2() {
  const Registers one = cpuid(1), seven = cpuid(7);
  return (saved_states() & kAvxState) == kAvxState && bit(one.c, 28) && bit(one.c, 12) && bit(one.c, 29) &&
         bit(seven.b, 5);  // AVX, FMA, F16C, AVX2
}

bool has_avx512() {
  const Registers seven = cpuid(7);
  return has_avx2() && (saved_states() & kAvx512State) == kAvx512State && bit(seven.b, 16) &&
         bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31);  // F, DQ, BW, VL
}

constexpr std::uint64_t kTileState = 0x60000;  // tile configuration and data

// AMX as the kernels use it: tiles, bfloat16 and int8 products, and everything of AVX-512 that they combine
// them with.
bool has_amx() {
  const Registers seven = cpuid(7), seven_one = cpuid(7, 1);
  return has_avx512() && bit(seven.c, 1) && bit(seven.c, 11) && bit(seven_one.a, 5) && bit(seven.d, 22) &&
         bit(seven.d, 24) && bit(seven.d, 25);  // VBMI, VNNI, AVX512_BF16, AMX-BF16, AMX-TILE, AMX-INT8
}

// Linux grants tile registers to a process that asks, before its first use of them. 0, or errno.
int ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const int refusal = [] {
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
  }();
  return refusal;
}

std::string microcode() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const std::size_t colon = line.find(": ");
        line.starts_with("microcode") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "unknown";
}

std::string brand() {
  if (cpuid(0x80000000u).a < 0x80000004u) return "unknown";
  std::string text;
  for (unsigned leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) {
    const Registers r = cpuid(leaf);
    for (const unsigned part : {r.a, r.b, r.c, r.d}) {
      char letters[4];
      std::memcpy(letters, &part, sizeof(letters));
      text.append(letters, 4);
    }
  }
  text = text.substr(0, text.find('\0'));
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "unknown" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// The folders of the process's control group and of its parents: a limit holds for all below it. `controller`
// is empty for version 2, which has one tree for all. Inside a container the folders below the root may be
// out of sight.
std::vector<std::string> cgroup_folders(const std::string& controller) {
  const std::string root = "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::string path;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/path", "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names.find("," + controller + ",") != std::string::npos) path = line.substr(second + 1);
  }
  std::vector<std::string> folders;
  for (; path.size() > 1; path.resize(path.rfind('/'))) folders.push_back(root + path);
  folders.push_back(root);
  return folders;
}

// The smaller of two limits, where 0 is none.
double tighter(double a, double b) {
  return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
}

double cgroup_quota() {
  double least = 0;
  for (const std::string& folder : cgroup_folders("")) {
    std::ifstream file(folder + "/cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0)
      least = tighter(least, std::strtod(quota.c_str(), nullptr) / period);
  }
  for (const std::string& folder : cgroup_folders("cpu")) {
    std::ifstream quota(folder + "/cpu.cfs_quota_us"), period(folder + "/cpu.cfs_period_us");
    double microseconds = 0, of = 0;
    if (quota >> microseconds && period >> of && microseconds > 0 && of > 0)
      least = tighter(least, microseconds / of);
  }
  return least;
}

// Seconds of some products in ten independent chains, of pairs of bfloat16 or of float32: the least of
// several tries, some microseconds each. Assembler, so that this file needs no flags of its own.
template <bool kIsPairs>
double time_products() {
  double least = 1;
  for (int i = 0; i < 9; ++i) {
    std::int64_t rounds = 1000;
    const TimePoint begin = Clock::now();
    __asm__ volatile(
        "vpxor %%xmm10, %%xmm10, %%xmm10\n1:\n\t"
        ".irp sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9\n\t"
        ".if %c[is_pairs]\n\tvdpbf16ps %%zmm10, %%zmm10, %%zmm\\sum\n\t"
        ".else\n\tvfmadd231ps %%zmm10, %%zmm10, %%zmm\\sum\n\t.endif\n\t.endr\n\t"
        "dec %[rounds]\n\tjnz 1b\n\tvzeroupper"
        : [rounds] "+r"(rounds)
        : [is_pairs] "i"(kIsPairs)
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10");
    least = std::min(least, elapsed(begin, Clock::now()).value);
  }
  return least;
}

}  // namespace

std::optional<std::string> why_tiles_are_refused() {
  if (!has_amx()) return std::nullopt;
  if ((saved_states() & kTileState) != kTileState) return "the system does not save AMX tiles";
  const int refusal = ask_for_tiles();
  if (refusal == 0) return std::nullopt;
  return fmt::format("the kernel refuses AMX tiles to this process (errno {})", refusal);
}

namespace {

std::optional<std::string> why_no_amx() {
  if (!has_amx())
    return "the processor offers no AMX (tiles, bfloat16, int8) with AVX-512 VNNI, BF16 and VBMI";
  return why_tiles_are_refused();
}

// By Isa: its name, and why this machine cannot run it; none where it can.
struct Tier {
  Isa isa;
  std::string_view name;
  std::optional<std::string> (*why_not)();
};
std::optional<std::string> reason_unless(bool is_there, const char* reason) {
  return is_there ? std::nullopt : std::optional<std::string>(reason);
}
constexpr Tier kTiers[] = {
    {Isa::scalar, "scalar", [] { return std::optional<std::string>(); }},
    {Isa::avx2, "avx2",
     [] { return reason_unless(has_avx2(), "the processor or the system offers no AVX2, FMA and F16C"); }},
    {Isa::avx512, "avx512",
     [] {
       return reason_unless(has_avx512(), "the processor or the system offers no AVX-512 (F, BW, DQ, VL)");
     }},
    {Isa::avx512bf16, "avx512bf16",
     [] {
       return reason_unless(has_avx512_bf16(),
                            "the processor or the system offers no AVX-512 BF16 with VNNI");
     }},
    {Isa::amx, "amx", why_no_amx}};
static_assert(std::size(kTiers) == std::size(kAllIsas));

const Tier& tier_of(Isa isa) {
  return kTiers[static_cast<std::size_t>(isa)];
}

}  // namespace

std::string_view name_of(Isa isa) {
  return tier_of(isa).name;
}

Isa isa_from_name(std::string_view text) {
  for (const Tier& tier : kTiers)
    if (text == tier.name) return tier.isa;
  throw FieldError("isa", "expected scalar, avx2, avx512, avx512bf16 or amx, found '{}'", text);
}

std::optional<std::string> why_not_usable(Isa isa) {
  return tier_of(isa).why_not();
}

bool has_avx2_vnni() {
  return has_avx2() && bit(cpuid(7, 1).a, 4);
}

bool has_avx512_vnni() {
  return has_avx512() && bit(cpuid(7).c, 11);
}

bool has_avx512_bf16() {
  return has_avx512() && bit(cpuid(7).c, 11) && bit(cpuid(7, 1).a, 5);  // VNNI, AVX512_BF16
}

bool is_usable(Isa isa) {
  return !why_not_usable(isa);
}

bool are_bfloat16_products_fast() {
  static const bool are_fast = has_avx512_bf16() && time_products<true>() < 1.5 * time_products<false>();
  return are_fast;
}

Isa best_usable_isa() {
  if (is_usable(Isa::amx)) return Isa::amx;
  if (is_usable(Isa::avx512bf16) && are_bfloat16_products_fast()) return Isa::avx512bf16;
  for (const Isa isa : {Isa::avx512, Isa::avx2})
    if (is_usable(isa)) return isa;
  return Isa::scalar;
}

// Asked once: in a virtual machine each cpuid leaves it, and rooflines ask for every measurement.
const std::vector<std::string>& cpu_features() {
  static const std::vector<std::string> features = [] {
    std::vector<std::string> found;
    const Registers seven = cpuid(7), seven_one = cpuid(7, 1);
    const auto add = [&](bool has, const char* feature) {
      if (has) found.emplace_back(feature);
    };
    add(has_avx2(), "avx2");
    add(has_avx2(), "fma");
    add(has_avx2_vnni(), "avx_vnni");
    add(bit(seven.b, 16), "avx512f");
    add(bit(seven.b, 30), "avx512bw");
    add(has_avx512_vnni(), "avx512_vnni");
    add(bit(seven_one.a, 5), "avx512_bf16");
    add(bit(seven.d, 22), "amx_bf16");
    add(bit(seven.d, 25), "amx_int8");
    return found;
  }();
  return features;
}

CpuInfo cpu_info() {
  CpuInfo info;
  info.model = brand();
  info.microcode = microcode();
  info.online = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  info.allowed = static_cast<int>(allowed_processors().size());
  info.quota = cgroup_quota();
  info.features = cpu_features();
  return info;
}

const std::vector<int>& allowed_processors() {
  static const std::vector<int> processors = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> allowed;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
    return allowed.empty() ? std::vector<int>{0} : allowed;
  }();
  return processors;
}

std::vector<int> processors_of_mask(std::string_view mask) {
  std::string_view digits = mask;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  if (digits.empty() || digits.size() > CPU_SETSIZE / 4 ||
      digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
    throw FieldError("cpu_mask", "expected a mask in hexadecimal such as 0x3, found '{}'", mask);
  std::vector<int> processors;
  for (const int cpu : allowed_processors()) {
    const auto digit = static_cast<std::size_t>(cpu) / 4;
    if (digit >= digits.size()) continue;
    const char c = digits[digits.size() - 1 - digit];
    const int value = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (((value >> (cpu % 4)) & 1) != 0) processors.push_back(cpu);
  }
  if (processors.empty())
    throw FieldError("cpu_mask", "{} selects none of the processors this process may use ({})", mask,
                     fmt::join(allowed_processors(), ", "));
  return processors;
}

const std::vector<std::string>& cgroup_cpu_statistics() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> files;
    for (const char* controller : {"", "cpu"})
      for (const std::string& folder : cgroup_folders(controller))
        if (const std::string file = folder + "/cpu.stat"; std::ifstream(file)) files.push_back(file);
    return files;
  }();
  return all;
}

Bytes cgroup_memory_limit() {
  constexpr double kNoLimit = 0x1p60;  // version 1 says none with the largest number it has
  double least = 0;
  const auto take = [&](const std::string& path) {
    std::ifstream file(path);
    double bytes = 0;
    if (file >> bytes && bytes < kNoLimit) least = tighter(least, bytes);
  };
  for (const std::string& folder : cgroup_folders("")) take(folder + "/memory.max");
  for (const std::string& folder : cgroup_folders("memory")) take(folder + "/memory.limit_in_bytes");
  return {static_cast<std::int64_t>(least)};
}

int default_thread_count(const std::vector<int>& processors) {
  const int cores = count_cores(read_topology(processors.empty() ? allowed_processors() : processors));
  return threads_for(cores, cgroup_quota());
}

int threads_for(int cores, double quota) {
  return quota > 0 ? static_cast<int>(std::clamp(std::floor(quota), 1.0, static_cast<double>(cores))) : cores;
}

}  // namespace assay
