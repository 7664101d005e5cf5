#include "sim/sweep/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/core/hash.hpp"

namespace syncline::sweep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view FirstLine = "syncline-sweep-journal 1\n";
constexpr std::string_view CommandKey = "command";
constexpr std::string_view RowsLine = "rows\n";
constexpr std::string_view Finished = "finished\n";  // last line of the journal of a whole sweep

std::string hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

[[noreturn]] void cannot(std::string_view what, const std::string& file) {
  throw EnvironmentError(fmt::format("cannot {} {}: {}", what, file, std::strerror(errno)));
}

std::string whole_text(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) cannot("read", file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The next line with its end; what is left of the text when there is none.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
  text.remove_prefix(line.size());
  return line;
}

std::string header_of(const Identity& identity, const std::string& command) {
  std::string header(FirstLine);
  header += fmt::format("{} {}\n", CommandKey, command);
  for (const auto& [name, value] : identity) header += fmt::format("{} {}\n", name, value);
  return header + std::string(RowsLine);
}

/// The lines up to the rows, by their first word; `text` begins with the rows after it.
std::map<std::string, std::string> take_header(std::string_view& text) {
  std::map<std::string, std::string> header;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (line == RowsLine) return header;
    if (line.ends_with('\n')) line.remove_suffix(1);
    const std::size_t space = std::min(line.find(' '), line.size());
    header[std::string(line.substr(0, space))] = line.substr(std::min(space + 1, line.size()));
  }
  return {};  // killed before the first row
}

/// "the sweep file" of "sweep-file".
std::string in_words(std::string name) {
  std::ranges::replace(name, '-', ' ');
  return "the " + name;
}

void write_output(const std::string& output, const std::string& text) {
  const std::string part = output + ".part";
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  stream << text << std::flush;
  stream.close();
  std::error_code error;
  if (stream) fs::rename(part, output, error);
  if (!stream || error) cannot("write", output);
}

}  // namespace

Identity identity_of(const Sweep& sweep, std::string_view sweep_text, std::string_view scenario_text,
                     std::uint64_t data, std::string_view version) {
  return {{"program", std::string(version)},
          {"sweep-file", hex(fnv1a(sweep_text))},
          {"scenario-file", hex(fnv1a(scenario_text))},
          {"files-named-by-the-scenario", hex(data)},
          {"flags", fmt::format("{}", fmt::join(sweep.flags, " "))}};
}

Journal::Journal(const Sweep& sweep, std::string output, const Identity& identity, const std::string& command,
                 Open open)
    : sweep_(sweep), output_(std::move(output)), name_(output_ + ".journal") {
  std::error_code ignored;
  const bool there = fs::exists(name_, ignored);
  if (open == Open::Anew && there) {
    const std::string text = whole_text(name_);
    if (text.starts_with(FirstLine) && !text.ends_with(Finished))
      refuse(name_,
             fmt::format("holds the rows of a sweep that was interrupted; add --resume to go on with it, or "
                         "remove the file to begin again"));
  }
  if (open == Open::Resume && there) read_back(identity);
  if (file_ < 0) begin(identity, command);
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

void Journal::begin(const Identity& identity, const std::string& command) {
  file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) cannot("write", name_);
  put(header_of(identity, command));
}

void Journal::read_back(const Identity& identity) {
  const std::string text = whole_text(name_);
  if (!text.empty() && !text.starts_with(FirstLine) && !FirstLine.starts_with(text))
    refuse(name_, "is no journal of a sweep; remove it, or name another --output");
  std::string_view rest = text;
  const std::map<std::string, std::string> header = take_header(rest);
  if (header.empty()) return;
  std::vector<std::string> changed;
  for (const auto& [name, value] : identity)
    if (const auto was = header.find(name); was == header.end() || was->second != value)
      changed.push_back(fmt::format("{} was \"{}\", is \"{}\"", in_words(name),
                                    was == header.end() ? "" : was->second, value));
  if (!changed.empty())
    refuse(name_,
           fmt::format(
               "holds rows of another sweep, which this one cannot go on with: {} (files by their hashes); "
               "name another --output, or remove the file",
               fmt::join(changed, "; ")));
  std::string sound(text.substr(0, text.size() - rest.size()));
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    std::optional<Row> row = row_of_line(sweep_, line);
    if (!row) continue;
    sound += line;
    rows_.insert_or_assign(row->point, std::move(*row));
  }
  write_output(name_, sound);
  file_ = ::open(name_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) cannot("write", name_);
}

void Journal::put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot("write", name_);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void Journal::add(const Row& row) {
  put(csv_line(row));
  rows_.insert_or_assign(row.point, row);
}

void Journal::finish(const std::map<std::size_t, Row>& lost) {
  std::map<std::size_t, Row> all = rows_;
  all.insert(lost.begin(), lost.end());
  std::string text = csv_header(sweep_);
  for (const auto& [point, row] : all) text += csv_line(row);
  write_output(output_, text);
  if (lost.empty()) put(Finished);
}

}  // namespace syncline::sweep
