// A kernel that does not grant AMX tiles: the program runs on the next tier and says why.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "assay/base/cpu.h"
#include "support/paths.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace assay::test {
namespace {

// From here on this process, and what it executes, may not ask for tiles (ARCH_REQ_XCOMP_PERM).
bool refuse_tiles() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x1023, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, 2, &program) == 0;
}

// Both outputs of the program run with the arguments, where tiles are refused; its exit code in `code`.
std::string run_refused(const std::vector<std::string>& arguments, int& code) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    std::vector<char*> argv{const_cast<char*>("assay")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    if (!refuse_tiles()) _exit(77);
    execv(program_path().c_str(), argv.data());
    _exit(78);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return text;
}

TEST(CliTilesRefused, RunsOnTheNextTierAndSaysWhy) {
  if (!is_usable(Isa::amx)) GTEST_SKIP() << "this machine has no amx";
  int code = 0;
  const std::string kernels = run_refused({"kernels", "--json"}, code);
  if (code == 77) GTEST_SKIP() << "no seccomp filter may be set here";
  EXPECT_EQ(code, 0) << kernels;
  EXPECT_NE(kernels.find("\"isa\": \"avx512\""), std::string::npos) << kernels;

  const std::string generated =
      run_refused({"generate", model_fixture("with_tokenizer"), "-p", "hi", "-n", "2"}, code);
  EXPECT_EQ(code, 0) << generated;
  EXPECT_NE(generated.find("the kernel refuses AMX tiles"), std::string::npos) << generated;

  const std::string forced = run_refused({"kernels", "--isa", "amx"}, code);
  EXPECT_EQ(code, 2);
  EXPECT_NE(forced.find("refuses AMX tiles"), std::string::npos) << forced;
}

}  // namespace
}  // namespace assay::test
