// A report before it has a form: sections of paragraphs, lists, tables, lines and figures. Renderers
// (render.h) know this and nothing of what was measured.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "assay/report/plot.h"
#include "assay/report/table.h"

namespace assay::report {

struct Paragraph {
  std::string text;  // sentences
};
struct List {
  std::vector<std::string> items;
  // What stands in items to be typed: shown as code, never broken within a word.
  std::vector<std::string> commands = {};
};
// Lines that keep their form: cut where a page is too narrow, never wrapped.
struct Lines {
  std::vector<std::string> lines;
};
struct Figure {
  std::string name;  // its file's, without an ending: "latency_by_length"
  Plot plot;
  bool is_lead = false;  // it belongs to the first screen of a page that has one
};
using Content = std::variant<Paragraph, List, Lines, Table, Figure>;

// A terminal shows what a reader needs first; a page holds everything.
enum class Shown { everywhere, on_pages, on_terminals };

struct Block {
  Content content;
  Shown shown = Shown::everywhere;
};

// What a page may show in another place or in another form.
enum class SectionKind { other, takeaways, recommendation, failures, texts, figures, every_metric, methods };

struct Section {
  std::string title;
  std::vector<Block> blocks;
  Shown shown = Shown::everywhere;
  // What the reader should remember: a page begins with it, a terminal ends with it, where the eye rests.
  bool is_conclusion = false;
  SectionKind kind = SectionKind::other;

  void add(Content content, Shown where = Shown::everywhere) {
    blocks.push_back({std::move(content), where});
  }
};

struct Document {
  std::string title;
  std::vector<Section> sections;
};

}  // namespace assay::report
