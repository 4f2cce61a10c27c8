#include "assay/quantize/companions.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "assay/base/file.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// In pieces: what goes with a model may be long.
void copy_companion(const fs::path& from, const fs::path& to) {
  const ReadFile file(from);
  write_file_atomically(to, [&](const ByteSink& sink) {
    std::vector<std::byte> slab(std::size_t{1} << 20);
    for (std::uint64_t done = 0; done < file.size();) {
      const auto part = std::span(slab).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(slab.size(), file.size() - done)));
      file.read_exactly(done, part);
      sink(part);
      done += part.size();
    }
  });
}

}  // namespace

std::vector<std::string> copy_companions(const ModelSource& source, const fs::path& folder) {
  std::vector<std::string> names;
  for (const ModelSource::Companion& file : source.companions()) {
    const fs::path to = folder / file.name;
    fs::create_directories(to.parent_path());
    if (file.file.empty())
      write_file_atomically(to, file.content);
    else
      copy_companion(file.file, to);
    names.push_back(file.name);
  }
  return names;
}

}  // namespace assay
