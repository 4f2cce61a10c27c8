#include "assay/base/json_lines.h"

#include <algorithm>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/format.h"

namespace assay {

namespace {

// A document over several lines would be said to end too early.
void refuse_long_document(std::string_view line, std::string_view rest, const std::string& where,
                          bool has_any) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(line.find_first_not_of(kBlanks));
  line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
  if (!has_any && (line == "[" || line == "{") && !rest.empty())
    throw Error("{}: expected a whole JSON object on each line, found one document over several lines",
                where);
}

}  // namespace

void for_json_lines(std::string_view content, const std::string& file,
                    const std::function<void(const JsonReader& line, std::int64_t number)>& use,
                    std::string_view example) {
  std::int64_t number = 0;
  bool has_any = false;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view text = content.substr(at, end - at);
    at = end + 1;
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", file, number);
    refuse_long_document(text, content.substr(std::min(at, content.size())), where, has_any);
    const nlohmann::ordered_json json = parse_ordered_json(text, where);
    const JsonReader line(json, where);
    if (!line.is_object()) line.refuse(fmt::format("an object, as in {}", example));
    use(line, number);
    has_any = true;
  }
  if (!has_any) throw Error("{}: expected a JSON object on each line, found none", file);
}

}  // namespace assay
