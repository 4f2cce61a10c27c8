// What Python's json module reads beyond JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/base/error.h"
#include "assay/base/json.h"

namespace assay {
namespace {

Json python(std::string_view text) {
  return parse_python_json(text, "x.json");
}
std::string python_refusal(std::string_view text) {
  try {
    python(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PythonJson, NumbersThatAreNone) {
  const Json json = python(R"({"a": NaN, "b": [Infinity, -Infinity], "c": 1e999, "d": -1e999, "e": 1e-999})");
  EXPECT_TRUE(std::isnan(json["a"].get<double>()));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(json["b"][0], infinity);
  EXPECT_EQ(json["b"][1], -infinity);
  EXPECT_EQ(json["c"], infinity);
  EXPECT_EQ(json["d"], -infinity);
  EXPECT_EQ(json["e"], 0.0);
  EXPECT_THROW(JsonView(json, "x").number("a"), Error);
}

TEST(PythonJson, IntegersOfAnyLength) {
  const Json json = python("{\"a\": 123456789012345678901234567890, \"b\": " + std::string(400, '9') + "}");
  EXPECT_EQ(json["a"].get<double>(), 123456789012345678901234567890.0);
  EXPECT_EQ(json["b"], std::numeric_limits<double>::infinity());
  EXPECT_THROW(JsonView(json, "x").integer("b", 0, 10), Error);
}

TEST(PythonJson, OfEqualKeysTheLast) {
  EXPECT_EQ(python(R"({"a": 1, "b": {"c": 1, "c": [2]}, "a": {"d": 3}})").dump(),
            R"({"a":{"d":3},"b":{"c":[2]}})");
}

TEST(PythonJson, HalvesOfSurrogatePairs) {
  const std::string unknown = "\xEF\xBF\xBD";
  EXPECT_EQ(python(R"({"a": "\ud800"})")["a"], unknown);
  EXPECT_EQ(python(R"({"a": "x\udfffy\ud83d\ude00"})")["a"], "x" + unknown + "y\xF0\x9F\x98\x80");
  EXPECT_EQ(python(R"({"a": "\ud800\u0041\\ud800"})")["a"], unknown + "A\\ud800");
  EXPECT_EQ(python(R"({"\udc00": 1})").begin().key(), unknown);
}

// Texts that look like numbers, and those that look like what numbers are read as.
TEST(PythonJson, TextsStayTexts) {
  EXPECT_EQ(python(R"({"a": "NaN", "b": "\"NaN, -Infinity", "NaN": 1})").dump(),
            R"({"NaN":1,"a":"NaN","b":"\"NaN, -Infinity"})");
  EXPECT_EQ(python(R"({"a": "\u0000n", "b": "\u0000", "\u0000i": "\u0000\u0000-"})").dump(),
            R"({"\u0000i":"\u0000\u0000-","a":"\u0000n","b":"\u0000"})");
}

TEST(PythonJson, RefusesWhatPythonRefuses) {
  for (const char* text :
       {"{\"a\": nan}", "{\"a\": NaNs}", "{\"a\": +Infinity}", "{\"a\": --Infinity}", "{\"a\": Infinity1}",
        "{\"a\": 01e999}", "{\"a\": 1.e999}", "{\"a\": 1e999e}", "{\"a\": .5}", "{NaN: 1}", "{\"a\": 1,}",
        "{\"a\": \"\\ud80\"}", "{\"a\": \"\\", "{\"a\": \"x", "{\"a\": \"\\u", "NaN", "[1]", "", "{"})
    EXPECT_NE(python_refusal(text).find("x.json: "), std::string::npos) << text;
  EXPECT_NE(python_refusal("{\n \"a\": ]}").find("line 2, column 7"), std::string::npos);
}

// Our own formats stay strict.
TEST(PythonJson, IsForModelsAlone) {
  for (const char* text : {R"({"a": NaN})", R"({"a": 1, "a": 2})", R"({"a": "\ud800"})", R"({"a": 1e999})"})
    EXPECT_THROW(parse_json_object(text, "x.json"), Error) << text;
}

}  // namespace
}  // namespace assay
