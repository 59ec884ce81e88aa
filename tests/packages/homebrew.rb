# Runs a formula of Homebrew without Homebrew: installs its sources into a folder, and runs its test.
#   homebrew.rb FORMULA SOURCES PREFIX
require "open3"
require "pathname"

# Stands in for Homebrew's class. Keeps the values of the formula's own words.
class Formula
  class << self
    attr_reader :values, :test_block

    %i[desc url version sha256 license depends_on].each do |word|
      define_method(word) { |value| ((@values ||= {})[word] ||= []) << value }
    end

    def test(&block)
      @test_block = block
    end
  end

  attr_reader :prefix

  def initialize(prefix)
    @prefix = prefix
  end

  def bin
    Pathname(prefix) / "bin"
  end

  def version
    self.class.values[:version].first
  end

  def std_cmake_args
    ["-DCMAKE_INSTALL_PREFIX=#{prefix}", "-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_BUILD_TYPE=Release"]
  end

  def system(*words)
    output, status = Open3.capture2e(*words.map(&:to_s))
    abort("#{words.join(" ")}: #{output}") unless status.success?
  end

  def shell_output(command)
    `#{command}`
  end

  def assert_match(expected, text)
    abort("expected #{expected} in #{text}") unless text.include?(expected)
  end
end

formula, sources, prefix = ARGV
load formula
one = Pccl.new(prefix)
abort("the formula has other values: #{Pccl.values}") unless Pccl.values[:url].first.end_with?(".tar.gz") &&
                                                             Pccl.values[:sha256].first.match?(/\A\h{64}\z/)
Dir.chdir(sources) { one.install }
one.instance_eval(&Pccl.test_block)
puts "homebrew: installed and tested #{one.version}"
