# Prints which of the languages there are.
for pair in python:python3 javascript:node typescript:tsx shell:sh perl:perl ruby:ruby go:go c:cc c++:c++ \
    rust:rustc java:java php:php lua:lua r:Rscript; do
    if command -v "${pair#*:}" >/dev/null 2>&1; then echo "${pair%%:*}"; else echo "${pair%%:*} (missing)"; fi
done
