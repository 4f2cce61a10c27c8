// TOML as JSON: values, order, and what is refused with file and line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/toml.h"

namespace assay {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_toml(text, "a.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Toml, BecomesJsonInTheOrderOfTheText) {
  EXPECT_EQ(
      parse_toml("z = 'a'  # c\nb = [1, 2.5, true]\n[[t]]\nx = 'p=\"q\"'\n[[t]]\nx.y = 1_000\n", "f").dump(),
      R"({"z":"a","b":[1,2.5,true],"t":[{"x":"p=\"q\""},{"x":{"y":1000}}]})");
}

TEST(Toml, KeepsMasksAndDatesAsTheyStand) {
  EXPECT_EQ(parse_toml("mask = 0x1F\nday = 2024-05-06\n", "f").dump(),
            R"({"mask":"0x1F","day":"2024-05-06"})");
}

TEST(Toml, NamesFileAndLineOfWhatIsWrong) {
  EXPECT_EQ(refusal("a = 1\nb = 'x\n").rfind("a.toml: line 2: not valid TOML", 0), 0U)
      << refusal("a = 1\nb = 'x\n");
  EXPECT_EQ(refusal("a = 1\na = 2\n").rfind("a.toml: line 2: not valid TOML", 0), 0U)
      << refusal("a = 1\na = 2\n");
  EXPECT_EQ(refusal("a = 1\nb = nan\n"), "a.toml: line 2: expected a finite number, found nan");
  EXPECT_EQ(refusal("x = " + std::string(10000, '[')).rfind("a.toml: line 1: not valid TOML", 0), 0U);
}

// Characters from each range that toml++ takes for impossible where white space may stand. Under
// UndefinedBehaviorSanitizer, reaching one ends the test.
TEST(Toml, CharactersBeyondAsciiAreNoWhiteSpace) {
  for (const char* letter : {"\u00e9", "\u03dd", "\u2e80", "\ufd00", "\u1681", "\u2030"}) {
    EXPECT_EQ(refusal(std::string("a_") + letter + " = 1").rfind("a.toml: line 1: not valid TOML", 0), 0U)
        << letter;
    EXPECT_EQ(refusal(std::string("a = 'b' ") + letter).rfind("a.toml: line 1: not valid TOML", 0), 0U)
        << letter;
    EXPECT_EQ(parse_toml(std::string("a = \"\"\"b\\\n  ") + letter + "\"\"\"", "f")["a"],
              std::string("b") + letter);
  }
}

// An assertion of toml++ in builds that have them, and an assumption of the compiler in others.
TEST(Toml, NamesOfTablesBeginAsKeysDo) {
  for (const char* text : {"[{a", "[.a]", "[,]", "[=", "[[ {", "[[,]]"})
    EXPECT_EQ(refusal(text).rfind("a.toml: line 1: not valid TOML", 0), 0U) << text;
}

TEST(Toml, OrJsonIsToldByTheFirstCharacter) {
  EXPECT_EQ(parse_toml_or_json(" \n{\"a\": [1]}", "f").dump(), R"({"a":[1]})");
  EXPECT_EQ(parse_toml_or_json("a = [1]", "f").dump(), R"({"a":[1]})");
  for (const auto& [text, file] : {std::pair("", "f"), {" \n", "f"}, {"[1, 2]", "f"}, {"a = 1", "f.json"}})
    EXPECT_THROW(parse_toml_or_json(text, file), Error) << text;
}

// Objects keep the order of their keys and compare each new one with all before it.
TEST(Toml, HasAsManyKeysAsJsonMayHave) {
  std::string text;
  for (int i = 0; i < 4096; ++i) text += "k" + std::to_string(i) + " = ['a']\n";
  EXPECT_EQ(parse_toml(text, "f").size(), 4096U);
  text += "more = 1\n";
  EXPECT_EQ(refusal(text), "a.toml: expected at most 4096 keys in one table, found 4097");
  EXPECT_EQ(refusal("[t]\n" + text), "a.toml: expected at most 4096 keys in one table, found 4097");
  std::string list = "a = [";
  for (int i = 0; i < 100000; ++i) list += "'a', ";
  EXPECT_EQ(parse_toml(list + "]\n", "f")["a"].size(), 100000U);
}

}  // namespace
}  // namespace assay
