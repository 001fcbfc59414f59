package main

import "k8s.io/apimachinery/pkg/api/resource"

// rewrite reads each quantity and writes it again.
func rewrite(texts []string) []outcome {
	outcomes := []outcome{}
	for _, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			outcomes = append(outcomes, outcome{Error: err.Error()})
			continue
		}
		outcomes = append(outcomes, outcome{Text: quantity.String()})
	}
	return outcomes
}
