#include "json_mutator.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace assay::fuzz {

namespace {

using Document = nlohmann::ordered_json;

constexpr std::size_t kMostValues = 20'000;  // from which those to be changed are drawn
constexpr std::size_t kMostEntries = 2'000;  // an array or object is extended to
constexpr int kDeepest = 150;                // recursion below this fits any stack
constexpr const char* kRawMark = "\x01raw\x01";

std::vector<std::string>& words() {
  static std::vector<std::string> all;
  return all;
}

bool parse(const std::string& text, Document& out) {
  int depth = 0, deepest = 0;
  for (const char sign : text) {
    if (sign == '[' || sign == '{') deepest = std::max(deepest, ++depth);
    if (sign == ']' || sign == '}') --depth;
  }
  if (deepest > kDeepest) return false;
  out = Document::parse(text, nullptr, false);
  return !out.is_discarded();
}

void collect(Document& at, std::vector<Document*>& all) {
  if (all.size() >= kMostValues) return;
  all.push_back(&at);
  if (at.is_structured())
    for (Document& child : at) collect(child, all);
}

void mutate_bytes(std::string& text) {
  constexpr std::size_t kMore = 32;
  const std::size_t size = text.size();
  text.resize(size + kMore);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
}

class JsonMutator {
 public:
  explicit JsonMutator(unsigned seed) : random_(seed) {}

  // False where the text is no JSON, or would become longer than `max_size`.
  bool mutate(std::string& text, std::size_t max_size) {
    if (!parse(text, root_)) return false;
    for (std::size_t n = one_in(4) ? 1 + below(6) : 1; n > 0; --n) change();
    return write(text, max_size);
  }
  // Takes a value or an entry from another document.
  bool cross(std::string& text, const std::string& other, std::size_t max_size) {
    Document donor;
    if (!parse(text, root_) || !parse(other, donor)) return false;
    if (root_.is_object() && donor.is_object() && !donor.empty() && one_in(2)) {
      const auto entry = any_entry(donor);
      root_[entry.key()] = entry.value();
    } else {
      std::vector<Document*> all;
      collect(donor, all);
      any() = *all[below(all.size())];
    }
    return write(text, max_size);
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename T, std::size_t n>
  T one_of(const T (&values)[n]) {
    return values[below(n)];
  }
  Document& any() {
    std::vector<Document*> all;
    collect(root_, all);
    return *all[below(all.size())];
  }
  // Some value of the kind that `is_right` wants; null where ten tries find none.
  template <typename IsRight>
  Document* any_of(const IsRight& is_right) {
    std::vector<Document*> all;
    collect(root_, all);
    for (int tries = 0; tries < 10; ++tries)
      if (Document* at = all[below(all.size())]; is_right(*at)) return at;
    return nullptr;
  }
  Document::iterator any_entry(Document& object) {
    return std::next(object.begin(), static_cast<std::ptrdiff_t>(below(object.size())));
  }
  std::string any_key() {
    return words().empty() || one_in(8) ? "k" + std::to_string(below(100)) : words()[below(words().size())];
  }

  bool write(std::string& text, std::size_t max_size) {
    std::string out = root_.dump(-1, ' ', false, Document::error_handler_t::replace);
    // Numbers that no double holds, and what is no JSON to some readers.
    const std::string mark = Document(kRawMark).dump();
    for (std::size_t at; (at = out.find(mark)) != std::string::npos;)
      out.replace(at, mark.size(),
                  one_of({"1e999", "-1e999", "18446744073709551616", "-9223372036854775809", "1e-400", "-0",
                          "0.1e1", "NaN", "Infinity", "-Infinity", "01", "123456789012345678901234567890"}));
    if (!repeated_key_.empty())
      if (const std::size_t at = out.find(repeated_key_); at != std::string::npos)
        out.replace(at, repeated_key_.size(), key_that_repeats_);
    if (out.size() > max_size) return false;
    text = std::move(out);
    return true;
  }

  Document interesting() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return any_integer();
      case 3:
      case 4:
        return one_of({0.0, -0.0, 0.5, -1.5, 1e-5, 1e-38, 1e-46, 5e-324, 3.4e38, 3.5e38, 1e15, 1e16, 1e19,
                       9007199254740993.0, 1e308, -1e308});
      case 5:
        return one_of({"",
                       "a",
                       " ",
                       "\n",
                       "|",
                       "\x1b[31m",
                       "\xe2\x96\x81",
                       "\xc3\xa9",
                       "\xf0\x9f\x98\x80",
                       "\xe4\xb8\xad",
                       "-1",
                       "nan",
                       "\\",
                       "\"",
                       "a,b",
                       "<0x41>",
                       "\xd9\x85",
                       "e\xcc\x81",
                       "\xea\xb0\x80",
                       kRawMark});
      case 6:
        return one_in(3) ? Document(nullptr) : Document(one_in(2));
      case 7:
        return one_in(2) ? Document::array() : Document::object();
      default:
        return any_key();
    }
  }
  Document any_integer() {
    using Limits = std::numeric_limits<std::int64_t>;
    if (one_in(12)) return std::numeric_limits<std::uint64_t>::max();
    if (one_in(3))  // a power of two, or beside one
      return static_cast<std::int64_t>((std::uint64_t{1} << below(64)) + below(3) - 1);
    return one_of<std::int64_t>({0, 1, -1, 2, 3, 4, 7, 100, 1000, 100000, Limits::min(), Limits::max()});
  }
  // A scalar becomes another of its kind.
  void nudge(Document& at) {
    if (at.is_string()) {
      std::string text = at.get<std::string>();
      if (one_in(6) && text.size() < 4096) {
        const std::string once = text;
        for (std::size_t n = below(20); n > 0; --n) text += once;
      } else {
        mutate_bytes(text);
      }
      at = text;
    } else if (at.is_number_integer()) {
      const auto value = at.get<std::uint64_t>();
      at = static_cast<std::int64_t>(one_of<std::uint64_t>(
          {value + 1, value - 1, 0 - value, value * 2, value / 2, value * 1000, below(1000)}));
    } else if (at.is_number_float()) {
      const auto value = at.get<double>();
      at = one_of<double>({-value, value * 2, value / 3, value * 1e10, value * 1e-10, value + 1});
    } else if (at.is_boolean()) {
      at = !at.get<bool>();
    } else {
      at = interesting();
    }
  }

  void change() {
    switch (below(12)) {
      case 0:
        any() = interesting();
        break;
      case 1:
      case 2:
      case 3:
        if (Document* at = any_of([](const Document& d) { return d.is_primitive(); }))
          one_in(3) ? void(*at = interesting()) : nudge(*at);
        break;
      case 4:
        remove();
        break;
      case 5: {
        Document copy = any();  // which the other may contain
        any() = std::move(copy);
        break;
      }
      case 6:
        insert(any());
        break;
      case 7:
        repeat();
        break;
      case 8:
        insert(interesting());
        break;
      case 9:
        rename();
        break;
      case 10: {
        Document &a = any(), &b = any();
        if (a.is_primitive() && b.is_primitive()) std::swap(a, b);
        break;
      }
      default:
        repeat_key();
        break;
    }
  }
  void remove() {
    Document* at = any_of([](const Document& d) { return d.is_structured() && !d.empty(); });
    if (at != nullptr) at->erase(any_entry(*at));
  }
  void insert(Document value) {
    Document* at = any_of([](const Document& d) { return d.is_structured() && d.size() < kMostEntries; });
    if (at == nullptr) return;
    if (at->is_object())
      (*at)[any_key()] = std::move(value);
    else
      at->insert(at->begin() + static_cast<std::ptrdiff_t>(below(at->size() + 1)), std::move(value));
  }
  void repeat() {
    Document* at = any_of([](const Document& d) { return d.is_array() && !d.empty(); });
    if (at == nullptr) return;
    const Document one = (*at)[below(at->size())];
    for (std::size_t n = 1 + below(30); n > 0 && at->size() < kMostEntries; --n) at->push_back(one);
  }
  void rename() {
    Document* at = any_of([](const Document& d) { return d.is_object() && !d.empty(); });
    if (at == nullptr) return;
    const auto entry = any_entry(*at);
    std::string key = entry.key();
    Document value = entry.value();
    at->erase(entry);
    one_in(2) ? void(key = any_key()) : mutate_bytes(key);
    (*at)[key] = std::move(value);
  }
  // No document object holds a key twice: the text is changed when it is written.
  void repeat_key() {
    Document* at = any_of([](const Document& d) { return d.is_object() && d.size() > 1; });
    if (at == nullptr) return;
    const auto text_of_key = [](const std::string& key) {
      return Document(key).dump(-1, ' ', false, Document::error_handler_t::replace) + ":";
    };
    repeated_key_ = text_of_key(any_entry(*at).key());
    key_that_repeats_ = text_of_key(any_entry(*at).key());
  }

  std::mt19937 random_;
  Document root_;
  std::string repeated_key_, key_that_repeats_;
};

std::size_t put(const std::string& made, std::uint8_t* out, std::size_t max_size) {
  const std::size_t size = std::min(made.size(), max_size);
  std::memcpy(out, made.data(), size);
  return size;
}

std::vector<Part> split_lines(std::string_view input) {
  std::vector<Part> parts;
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size() - 1);
    const bool is_whole = input[end] == '\n';
    parts.push_back({std::string(input.substr(0, is_whole ? end : end + 1))});
    input.remove_prefix(end + 1);
  }
  return parts;
}

}  // namespace

Form one_document() {
  return {[](std::string_view input) { return std::vector<Part>{{std::string(input)}}; },
          [](const std::vector<Part>& parts) { return parts.front().text; }};
}

Form lines() {
  return {split_lines, [](const std::vector<Part>& parts) {
            std::string all;
            for (const Part& part : parts) all += part.text + "\n";
            return all;
          }};
}

std::vector<Part> split_sections(std::string_view input, std::size_t documents, bool has_rest) {
  const std::size_t count = documents + (has_rest ? 1 : 0);
  std::vector<Part> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? std::min(input.find('\0'), input.size()) : input.size();
    parts.push_back({std::string(input.substr(0, end)), i < documents});
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return parts;
}

std::string join_sections(const std::vector<Part>& parts) {
  std::string all;
  for (const Part& part : parts) {
    if (&part != &parts.front()) all.push_back('\0');
    all += part.text;
  }
  return all;
}

std::size_t mutate(const Form& form, std::uint8_t* data, std::size_t size, std::size_t max_size,
                   unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Part> parts = form.split({reinterpret_cast<const char*>(data), size});
  if (parts.empty() || random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  Part& part = parts[random() % parts.size()];
  if (!part.is_json)
    mutate_bytes(part.text);
  else if (parts.size() > 2 && random() % 16 == 0)
    part = Part(parts[random() % parts.size()]);
  else if (!JsonMutator(static_cast<unsigned>(random())).mutate(part.text, max_size))
    return LLVMFuzzerMutate(data, size, max_size);
  return put(form.join(parts), data, max_size);
}

std::size_t cross(const Form& form, std::string_view a, std::string_view b, std::uint8_t* out,
                  std::size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Part> parts = form.split(a), others = form.split(b);
  if (parts.empty() || others.empty()) return 0;
  const std::size_t which = random() % std::min(parts.size(), others.size());
  Part& part = parts[which];
  if (!part.is_json || random() % 4 == 0)
    part = others[which];
  else
    JsonMutator(static_cast<unsigned>(random())).cross(part.text, others[which].text, max_size);
  return put(form.join(parts), out, max_size);
}

void read_dictionary(int argc, char** argv) {
  constexpr std::string_view kFlag = "-dict=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with(kFlag)) continue;
    std::ifstream file{std::string(word.substr(kFlag.size()))};
    for (std::string line; std::getline(file, line);)
      if (line.size() > 2 && line.front() == '"' && line.back() == '"' &&
          line.find('\\') == std::string::npos)
        words().push_back(line.substr(1, line.size() - 2));
  }
}

}  // namespace assay::fuzz
