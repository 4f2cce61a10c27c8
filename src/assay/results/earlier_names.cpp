#include "assay/results/earlier_names.h"

#include <algorithm>
#include <string_view>
#include <variant>

namespace assay {

namespace {

constexpr std::string_view kLmHead = ", lm_head ";

// The format at the beginning of a text, where the name of the part ends behind it.
std::string_view head_format_at(std::string_view text) {
  for (const std::string_view format : {"int8", "nf4", "fp4"})
    if (text.starts_with(format) &&
        (text.size() == format.size() || std::string_view(",:;) ").find(text[format.size()]) != text.npos))
      return format;
  return {};
}

struct Rename {
  void operator()(std::string& name) const { name = current_name(std::move(name)); }
  void operator()(Comparison& c) const {
    (*this)(c.subject);
    (*this)(c.baseline);
  }
  void operator()(std::vector<Comparison>& all) const {
    for (Comparison& c : all) (*this)(c);
  }
  void operator()(std::optional<Comparison>& c) const {
    if (c) (*this)(*c);
  }
  void operator()(auto& /*number*/) const {}
};

void rename_row(Row& row) {
  const Rename rename;
  rename(row.label);
  for (auto& [key, value] : row.parameters) rename(value);
}

}  // namespace

std::string current_name(std::string name) {
  for (std::size_t at = name.find(kLmHead); at != std::string::npos; at = name.find(kLmHead, at + 1)) {
    const std::string_view format = head_format_at(std::string_view(name).substr(at + kLmHead.size()));
    if (format.empty()) continue;
    // The type of the rest may stand between the precision and its LM head.
    std::size_t to = at;
    const std::size_t before = at == 0 ? std::string::npos : name.rfind(", ", at - 1);
    if (before != std::string::npos && std::string_view(name).substr(before + 2).starts_with("dtype "))
      to = before;
    if (std::string_view(name).substr(0, to).ends_with("as stored")) continue;
    const std::string typed = "+head:" + std::string(format);
    name.erase(at, kLmHead.size() + format.size());
    name.insert(to, typed);
  }
  return name;
}

void use_current_names(ResultSet& results) {
  Rename rename;
  for (Row& row : results.rows) rename_row(row);
  for (GeneratedText& text : results.texts) {
    rename(text.label);
    rename(text.generated_by);
  }
  rename(results.comparisons);
  rename(results.other_comparisons);
  for (AuditRow& row : results.audit) rename(row.configuration);
  for (LeftOut& one : results.left_out) rename(one.what);
  rename(results.model.dtype);
  for (Finding& finding : results.findings)
    std::visit([&](auto& found) { found.fields([&](const auto& /*name*/, auto& value) { rename(value); }); },
               finding);
}

}  // namespace assay
