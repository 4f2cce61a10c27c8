// Whether text is well-formed XML, as far as pages and plots use it.
#pragma once

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace assay::test {

// Empty where every element is closed in its order, attributes are quoted and given once, ids are used once,
// and no reference is unknown; else what is wrong, with the place.
inline std::string why_not_xml(const std::string& text) {
  static const std::regex tag("^<(/?)([A-Za-z][A-Za-z0-9]*)((?: [A-Za-z][A-Za-z0-9:-]*=\"[^\"<]*\")*)(/?)>");
  static const std::regex attribute(" ([A-Za-z][A-Za-z0-9:-]*)=\"([^\"]*)\"");
  static const std::regex reference("^&(amp|lt|gt|quot|#39);");
  std::vector<std::string> open;
  std::set<std::string> ids;
  const auto wrong = [&](const std::string& what, std::size_t at) {
    return what + " at: " + text.substr(at, 80);
  };
  for (std::size_t at = text.starts_with("<!DOCTYPE html>") ? 15 : 0; at < text.size();) {
    const std::string rest = text.substr(at, 4000);
    std::smatch found;
    if (rest.starts_with("<![CDATA[")) {
      at = text.find("]]>", at);
      if (at == std::string::npos) return "a CDATA section is not closed";
      at += 3;
    } else if (rest[0] == '&') {
      if (!std::regex_search(rest, reference)) return wrong("unknown reference", at);
      ++at;
    } else if (rest[0] != '<') {
      at = std::min(text.find_first_of("<&", at), text.size());
    } else {
      if (!std::regex_search(rest, found, tag)) return wrong("no tag", at);
      const std::string name = found[2], attributes = found[3];
      std::set<std::string> names;
      for (std::sregex_iterator i(attributes.begin(), attributes.end(), attribute), end; i != end; ++i) {
        if (!names.insert((*i)[1]).second) return wrong("attribute twice", at);
        if ((*i)[1] == "id" && !ids.insert((*i)[2]).second) return wrong("id twice", at);
      }
      if (found[1] == "/") {
        if (open.empty() || open.back() != name) return wrong("closed out of order", at);
        open.pop_back();
      } else if (found[4] != "/") {
        open.push_back(name);
      }
      at += static_cast<std::size_t>(found.length());
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

}  // namespace assay::test
