// Texts that are no UTF-8 through JSON and back.
#include "assay/base/json_bytes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace assay {
namespace {

using Ordered = nlohmann::ordered_json;

TEST(JsonBytes, EveryTextComesBack) {
  const std::vector<std::string> texts = {"",
                                          "plain",
                                          "gr\xC3\xBCn",
                                          "out-\xFFx",
                                          "\xC3",
                                          "\xED\xA0\x80",
                                          "\xF4\x90\x80\x80",
                                          "\xE0\x80\x80",
                                          "a\x80",
                                          std::string(1, '\0'),
                                          std::string("\0ff", 3),
                                          std::string("\0\xFF", 2),
                                          "\xF0\x9F\x98\x80"};
  for (const std::string& text : texts) {
    Ordered json{{"a", {text, 1}}, {"b", {{"c", text}}}};
    const Ordered before = json;
    hide_bytes(json);
    Ordered read = Ordered::parse(json.dump());  // which throws for what is no UTF-8
    restore_bytes(read);
    EXPECT_EQ(read, before);
  }
}

TEST(JsonBytes, OtherTextsAreUntouched) {
  Ordered json{{"a", "gr\xC3\xBCn"}, {"b", 1.5}, {"c", nullptr}};
  const Ordered before = json;
  hide_bytes(json);
  EXPECT_EQ(json, before);
  // As another program may have written it.
  for (const std::string& text : {std::string("\0xy", 3), std::string("\0f", 2)}) {
    Ordered other(text);
    restore_bytes(other);
    EXPECT_EQ(other.get<std::string>(), text);
  }
}

}  // namespace
}  // namespace assay
