#include "assay/session/corpus_beginning.h"

#include <algorithm>
#include <span>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/text/tokenizer.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
// Tokens beside the end of what was read, which may be others than in the whole text.
constexpr std::int64_t kUncertain = 64;

// The bytes at the end of a piece that are the beginning of a character.
std::size_t unfinished_bytes(std::string_view piece) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, piece.size()); ++back) {
    const std::size_t at = piece.size() - back;
    if ((static_cast<unsigned char>(piece[at]) & 0xC0) == 0x80) continue;
    return read_utf8(piece, at).kind == Utf8Kind::cut ? back : 0;
  }
  return 0;
}

// Characters that pieces divide are put together; the offset in a message is that of the text.
class Utf8Check {
 public:
  explicit Utf8Check(std::string where) : where_(std::move(where)) {}
  void add(std::string_view piece) {
    rest_ += piece;
    const std::size_t whole = rest_.size() - unfinished_bytes(rest_);
    check(whole);
    done_ += whole;
    rest_.erase(0, whole);
  }
  void end() const { check(rest_.size()); }

 private:
  void check(std::size_t end) const {
    for (std::size_t at = 0; at < end;) {
      const Utf8Step step = read_utf8(rest_, at);
      if (step.kind != Utf8Kind::good) throw Error("{}: not valid UTF-8 at byte {}", where_, done_ + at);
      at += step.length;
    }
  }
  std::string where_, rest_;
  std::size_t done_ = 0;
};

// At the last blank of its second half, else between two characters.
void cut_at(std::string& text, std::size_t bytes) {
  std::size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  const std::size_t blank = std::string_view(text).substr(0, end).find_last_of(" \n");
  text.resize(blank != std::string::npos && blank > end / 2 ? blank : end);
}

}  // namespace

CorpusBeginning read_corpus_beginning(const std::filesystem::path& file, Newlines newlines,
                                      std::size_t bytes) {
  const ReadFile source(file);
  NewlineReader reader(newlines);
  Utf8Check check(file.string());
  Sha256 hash;
  CorpusBeginning result;
  bool has_more = false;
  const auto take = [&](const std::string& piece) {
    check.add(piece);
    hash.update(piece);
    std::string& kept = result.read.text;
    const std::size_t room = bytes + 1 - std::min(bytes + 1, kept.size());
    has_more = has_more || piece.size() > room;
    kept.append(piece, 0, room);
  };
  for (std::uint64_t at = 0; at < source.size(); at += kPiece) {
    std::string piece(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, source.size() - at)), '\0');
    source.read_exactly(at, std::as_writable_bytes(std::span(piece.data(), piece.size())));
    take(reader.add(std::move(piece)));
  }
  take(reader.end());
  check.end();
  std::string& kept = result.read.text;
  if (kept.empty()) throw Error("{} is empty: a perplexity needs text", file.string());
  result.is_whole = !has_more && kept.size() <= bytes;
  if (!result.is_whole) cut_at(kept, bytes);
  result.read.change = reader.change();
  result.sha256 = hash.hex();
  return result;
}

CorpusBeginning read_corpus_beginning(const std::filesystem::path& file, Newlines newlines,
                                      const Tokenizer& tokenizer, std::int64_t tokens) {
  constexpr std::size_t kFirstBytesPerToken = 16;
  const std::int64_t wanted = tokens + kUncertain;
  for (std::size_t bytes = static_cast<std::size_t>(wanted) * kFirstBytesPerToken;; bytes *= 4) {
    CorpusBeginning result = read_corpus_beginning(file, newlines, bytes);
    if (result.is_whole || std::ssize(tokenizer.encode(result.read.text, false)) >= wanted) return result;
  }
}

std::vector<TokenId> first_ids(const Tokenizer& tokenizer, const std::string& text, std::int64_t tokens) {
  std::vector<TokenId> ids = tokenizer.encode(text);
  if (tokens < std::ssize(ids)) ids.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, tokens)));
  return ids;
}

}  // namespace assay
