// Clients that Go programs use, against whatever server a kubeconfig names: typed clients, informers, leader election and
// controller-runtime's manager. What they see is printed line by line; two servers that are alike print the same lines.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Nothing here takes long; a client that waits for ever is a finding.
const patience = 60 * time.Second

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: clients STORY KUBECONFIG NAMESPACE")
	}
	story, kubeconfig, namespace := os.Args[1], os.Args[2], os.Args[3]
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(err)
	config.QPS = -1
	config.UserAgent = "clients/1.0"
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stories := map[string]func(context.Context, *rest.Config, string){
		"typed":     typed,
		"informers": informersStory,
		"election":  election,
		"manager":   managerStory,
	}
	run, known := stories[story]
	if !known {
		log.Fatalf("no story %q", story)
	}
	run(ctx, config, namespace)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func say(format string, arguments ...any) {
	fmt.Printf(format+"\n", arguments...)
}

// until waits for a state; the name tells what never came.
func until(ctx context.Context, what string, reached func() bool) {
	for !reached() {
		select {
		case <-ctx.Done():
			log.Fatalf("waited for %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
