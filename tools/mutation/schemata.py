"""A source with all of its mutants in it, each a choice at run time (mutant schemata)."""

HEADER = """#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
#include <type_traits>
struct AssayMutants {
  int active = 0;
  unsigned char* reached = nullptr;
  AssayMutants() {
    if (const char* text = std::getenv("ASSAY_MUTANT")) active = std::atoi(text);
    if (const char* file = std::getenv("ASSAY_MUTANTS_REACHED")) {
      const int fd = open(file, O_RDWR);
      void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (memory != MAP_FAILED) reached = static_cast<unsigned char*>(memory);
      if (fd >= 0) close(fd);
    }
  }
};
inline bool assay_mutant(int number) {
  static const AssayMutants mutants;
  if (mutants.reached != nullptr) mutants.reached[number] = 1;
  return mutants.active == number;
}
"""


def render(text, mutants):
    """The source with all mutants, numbered: [(number, mutant)]. Of regions that overlap in part, the later one is left out;
    returns the text and the numbers that are in it."""
    kept = []
    for number, m in mutants:
        if all(o.end <= m.begin or m.end <= o.begin or (o.begin <= m.begin and m.end <= o.end) or (m.begin <= o.begin and o.end <= m.end)
               for _, o in kept):  # fmt: skip
            kept.append((number, m))
    kept.sort(key=lambda pair: (pair[1].begin, -pair[1].end, pair[0]))

    def part(begin, end, of):
        out, at = [], begin
        while of:
            number, m = of[0]
            inner = [p for p in of[1:] if p[1].end <= m.end and p[1].begin >= m.begin]
            of = of[1 + len(inner) :]
            out.append(text[at : m.begin])
            original = part(m.begin, m.end, inner)
            # A comment at the end of a line must not swallow the bracket.
            out.append(m.text.replace("HERE", str(number)).replace("ORIGINAL", original.rstrip()))
            at = m.end
        return "".join(out) + text[at:end]

    return part(0, len(text), kept), {number for number, _ in kept}
