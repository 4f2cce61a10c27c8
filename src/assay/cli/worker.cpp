// assay worker: answers each JSON line on standard input with one on standard output.
#include <iostream>

#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/harness/worker_protocol.h"

namespace assay::cli {

namespace {

int run_worker() {
  let_interrupts_end_reads();
  // Never destroyed: the system takes memory back at once, and freeing it piece by piece takes longer.
  static WorkerServer* const server = new WorkerServer(is_interrupted);
  try {
    server->serve(std::cin, [](const std::string& reply) { answer(reply + "\n"); });
  } catch (const ReaderGone&) {
    return is_interrupted() ? kInterrupted : kFailed;  // who asked has gone, and says why itself
  }
  return is_interrupted() ? kInterrupted : server->has_failed() ? kFailed : 0;
}

}  // namespace

void add_worker(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "worker", "Keep models loaded and answer requests, one line of JSON each, for interleaved measurement");
  command->footer(
      "Requests: {\"op\":\"load\",\"model\":DIR,\"precision\":P,\"threads\":N,\"isa\":ISA},\n"
      "{\"op\":\"prefill\",\"ids\":[[...],...]},\n"
      "{\"op\":\"decode\",\"ids\":[[...],...],\"new_tokens\":N}, {\"op\":\"logits\",\"ids\":[...]},\n"
      "{\"op\":\"profile\",\"ids\":[[...],...],\"new_tokens\":N}, "
      "{\"op\":\"roofline\",\"working_set_bytes\":N},\n"
      "{\"op\":\"quit\"}\n"
      "Several models are loaded under a \"key\" each, which later requests name; without it they mean the\n"
      "first. A request that fails is answered with {\"ok\":false,\"error\":...}.\n"
      "Example: assay worker < requests.jsonl");
  command->callback([&exit_code] { exit_code = run_worker(); });
}

}  // namespace assay::cli
