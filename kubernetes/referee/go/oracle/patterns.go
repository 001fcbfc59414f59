package main

import (
	"fmt"
	"regexp"
	"strings"
)

// match builds each pattern and says where it matches first in each of the texts, in bytes; a dash where it does not.
func match(patterns, texts []string) []outcome {
	outcomes := []outcome{}
	for _, pattern := range patterns {
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			outcomes = append(outcomes, outcome{Error: err.Error()})
			continue
		}
		places := []string{}
		for _, text := range texts {
			if found := compiled.FindStringIndex(text); found != nil {
				places = append(places, fmt.Sprintf("%d..%d", found[0], found[1]))
			} else {
				places = append(places, "-")
			}
		}
		outcomes = append(outcomes, outcome{Text: strings.Join(places, " ")})
	}
	return outcomes
}
