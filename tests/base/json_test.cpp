// JSON from untrusted files.
#include "assay/base/json.h"

#include <limits>

#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay {
namespace {

std::string refusal_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Json, RefusesDepthDuplicatesAndOtherTopLevels) {
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(refusal_of([&] { parse_json_object(deep, "x.json"); }),
            "x.json: JSON is nested deeper than 64 levels");
  EXPECT_EQ(refusal_of([] { parse_json_object("{\"a\":1,\"a\":2}", "x.json"); }),
            "x.json: duplicate key 'a'");
  EXPECT_EQ(refusal_of([] { parse_json_object("[1]", "x.json"); }),
            "x.json: expected a JSON object, found array");
  EXPECT_EQ(refusal_of([] { parse_json_object("{\"a\":", "x.json"); }),
            "x.json: not valid JSON: line 1, column 6: the text ends too early");
  EXPECT_EQ(refusal_of([] { parse_json_object("{\"a\": [1e999]}", "x.json"); }),
            "x.json: not valid JSON: a number is out of range");
  EXPECT_EQ(parse_json_object("{\"a\":{\"b\":1},\"c\":{\"b\":2}}", "x.json")["c"]["b"], 2);
}

TEST(Json, ValuesAreShownAsPythonWritesThem) {
  EXPECT_EQ(shown_value(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(shown_value(-std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(shown_value(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(shown_value(-std::numeric_limits<double>::infinity()), "-Infinity");
  EXPECT_EQ(shown_value(nullptr), "null");
  EXPECT_EQ(shown_value({{"a", {1, "b"}}}), R"({"a":[1,"b"]})");
  EXPECT_EQ(shown_value(std::string(100, 'x'), 5), "\"xxxx");
}

TEST(Json, CountsValues) {
  EXPECT_EQ(parse_json_object(R"({"a": [1, 2]})", "x.json", 4)["a"][1], 2);
  EXPECT_EQ(refusal_of([] { parse_json_object(R"({"a": [1, 2]})", "x.json", 3); }),
            "x.json: more than 3 values in its JSON");
  for (const char* value : {"null", "true", "-1", "1", "1.5", "\"t\"", "[]", "{}"})
    EXPECT_NE(
        refusal_of([&] { parse_json_object(fmt::format(R"({{"a": {}, "b": {}}})", value, value), "x", 2); }),
        "no error")
        << value;
}

TEST(JsonEntries, AreGivenOneByOneInTheOrderOfTheText) {
  std::string seen;
  parse_json_entries(R"({"b": {"x": [1, {"y": null}]}, "a": -2, "c": [], "d": "t", "e": 1.5, "f": true})",
                     "x.json", 10,
                     [&](const std::string& key, const Json& value) { seen += key + value.dump() + ";"; });
  EXPECT_EQ(seen, R"(b{"x":[1,{"y":null}]};a-2;c[];d"t";e1.5;ftrue;)");
}

TEST(JsonEntries, RefuseWhatAWholeObjectRefuses) {
  const auto refused = [](std::string_view text) {
    return refusal_of([&] { parse_json_entries(text, "x.json", 4, [](const std::string&, const Json&) {}); });
  };
  EXPECT_EQ(refused("{}"), "no error");
  EXPECT_EQ(refused("[1]"), "x.json: expected a JSON object, found array");
  EXPECT_EQ(refused("3"), "x.json: expected a JSON object, found number");
  EXPECT_EQ(refused(R"({"a": 1, "a": 2})"), "x.json: duplicate key 'a'");
  EXPECT_EQ(refused(R"({"b": {"a": 1, "a": 2}})"), "x.json: duplicate key 'a'");
  EXPECT_EQ(refused(R"({"a": [1, 2, 3], "b": [1, 2, 3]})"), "no error");  // 4 values each
  EXPECT_EQ(refused(R"({"a": [1, 2, 3, 4]})"), "x.json: more than 4 values in its JSON");
  EXPECT_NE(refused("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"a": )").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"a": 1} x)").find("not valid JSON"), std::string::npos);
  const std::string deep = "{\"a\":" + std::string(100000, '[');
  EXPECT_NE(refusal_of([&] {
              parse_json_entries(deep, "x.json", kAnyNumber, [](const std::string&, const Json&) {});
            }).find("nested deeper than 64 levels"),
            std::string::npos);
}

TEST(JsonView, ChecksTypesAndRanges) {
  const Json json = parse_json_object(
      R"({"n": 12, "f": 0.5, "whole": 3.0, "s": "text", "b": true, "none": null, "big": 1e300})", "c.json");
  const JsonView view(json, "c.json");
  EXPECT_EQ(view.integer("n", 1, 100), 12);
  EXPECT_EQ(view.integer("whole", 1, 100), 3);
  EXPECT_EQ(view.integer_or("absent", 7, 1, 100), 7);
  EXPECT_EQ(view.integer_or("none", 7, 1, 100), 7);
  EXPECT_EQ(refusal_of([&] { view.integer("absent", 1, 2); }), "c.json: the key 'absent' is missing");
  EXPECT_EQ(refusal_of([&] { view.integer("n", 1, 11); }),
            "c.json: n: expected a whole number from 1 to 11, found 12");
  for (const char* key : {"f", "s", "b", "big"})
    EXPECT_NE(refusal_of([&] { view.integer(key, 0, 100); }).find("expected a whole number"),
              std::string::npos)
        << key;
  EXPECT_NE(refusal_of([&] { view.number("s"); }).find("expected a finite number"), std::string::npos);
  EXPECT_NE(refusal_of([&] { view.boolean_or("n", true); }).find("expected true or false"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { view.text("n"); }).find("expected a string"), std::string::npos);
}

}  // namespace
}  // namespace assay
